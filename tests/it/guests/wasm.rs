//! Components that no compiler of a language makes, byte by byte: small files that cost whoever compiles them much.
//!
//! The format: WebAssembly Core Specification, "Binary Format"; component-model `Binary.md`.
//!
//! **Invariant**: each is valid, and refused for its cost only.

/// A function without locals; the end of its body comes by itself.
fn body(locals: &[u8], code: &[u8]) -> Vec<u8> {
    sized(&[locals, code, b"\x0b"].concat())
}

/// One function whose blocks nobody needs: takes memory.
pub(super) fn many_blocks(count: usize) -> Vec<u8> {
    // block; i32.const 0; br_if 0; end
    component(&[body(b"\0", &b"\x02\x40\x41\x00\x0d\x00\x0b".repeat(count))])
}

/// Functions of 50,000 locals each, the most that the format allows: takes time.
pub(super) fn many_locals(count: usize) -> Vec<u8> {
    let locals = [&b"\x01"[..], &number(50_000), b"\x7e"].concat();
    // local.get 0; drop
    component(&vec![body(&locals, b"\x20\x00\x1a"); count])
}

/// Functions that do nothing.
pub(super) fn many_functions(count: usize) -> Vec<u8> {
    component(&vec![body(b"\0", b""); count])
}

/// A component that also instantiates a core module of its own, `times` over.
pub(super) fn with_module(component: &[u8], module: &[u8], times: usize) -> Vec<u8> {
    let index = number(core_modules(component));
    // instantiate, module, no arguments
    let instance = [&b"\0"[..], &index, b"\0"].concat();
    let instances = [number(times), instance.repeat(times)].concat();
    [component, &section(1, module), &section(2, &instances)].concat()
}

/// Which has tables of so many entries.
pub(super) fn tables(count: usize, entries: usize) -> Vec<u8> {
    let table = [&b"\x70\0"[..], &number(entries)].concat();
    let tables = [number(count), table.repeat(count)].concat();
    [&b"\0asm\x01\0\0\0"[..], &section(4, &tables)].concat()
}

/// Which has an empty memory.
pub(super) fn memory() -> Vec<u8> {
    [&b"\0asm\x01\0\0\0"[..], &section(5, b"\x01\0\0")].concat()
}

/// Which does not end its start.
pub(super) fn endless_start() -> Vec<u8> {
    // loop; br 0; end
    let code = body(b"\0", b"\x03\x40\x0c\0\x0b");
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\0\0"),
        section(3, b"\x01\0"),
        section(8, b"\0"),
        section(10, &[b"\x01", &code[..]].concat()),
    ]
    .concat()
}

/// Another file that means the same.
pub(super) fn variant(component: &[u8], number: u8) -> Vec<u8> {
    [component, &section(0, &[1, b'v', number])].concat()
}

/// Core modules on the top level of a component.
fn core_modules(component: &[u8]) -> usize {
    let mut rest = &component[8..];
    let mut count = 0;
    while let [id, after @ ..] = rest {
        count += usize::from(*id == 1);
        let mut len = 0;
        let mut at = 0;
        loop {
            len |= usize::from(after[at] & 0x7f) << (7 * at);
            at += 1;
            if after[at - 1] < 0x80 {
                break;
            }
        }
        rest = &after[at + len..];
    }
    count
}

/// A component of one core module of these functions, which is never instantiated.
fn component(bodies: &[Vec<u8>]) -> Vec<u8> {
    let count = number(bodies.len());
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\0\0"),
        section(3, &[count.clone(), vec![0; bodies.len()]].concat()),
        section(10, &[count, bodies.concat()].concat()),
    ];
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &module.concat())].concat()
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], sized(content)].concat()
}

fn sized(content: &[u8]) -> Vec<u8> {
    [&number(content.len()), content].concat()
}

/// LEB128.
fn number(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits");
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
