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
