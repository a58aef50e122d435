//! Checks lists: of tables that have names, and of texts.
//!
//! **Invariant**: an element of a list of tables keeps its index, even if nothing of it fits.

use std::collections::HashMap;

use super::Checker;
use crate::problem;
use crate::record::{Element, Shape};
use base::tree::{Data, Node};

impl Checker<'_> {
    pub(super) fn tables(&mut self, path: &str, mut node: Node, element: &Element) -> Node {
        let Data::List(elements) = &mut node.data else {
            return node;
        };
        let mut first: HashMap<String, usize> = HashMap::new();
        for (index, element_node) in elements.iter_mut().enumerate() {
            let line = element_node.line;
            let taken = std::mem::replace(element_node, Node::empty_table(line));
            let path_of = |index| format!("{path}[{index}]");
            *element_node = self.element(&path_of(index), taken, element);
            let Some(name) = element_node.name() else {
                continue;
            };
            // Later sources change what earlier ones declare; within one it is a slip.
            match first.get(name) {
                Some(other) => {
                    let (name, other) = (problem::quoted(name), path_of(*other));
                    let name_line = element_node
                        .entries()
                        .iter()
                        .find(|entry| entry.name == "name")
                        .and_then(|entry| entry.line);
                    let message =
                        format!("the name {name} is already used by {other}; choose another name");
                    self.report(&format!("{path}[{index}].name"), name_line, message);
                }
                None => drop(first.insert(name.to_owned(), index)),
            }
        }
        node
    }

    /// What is missing is said when all sources are known: another one may have it.
    fn element(&mut self, path: &str, node: Node, element: &Element) -> Node {
        let node = self.table(path, node, element.fields);
        let given = element.one_of.iter().filter(|name| {
            let given = node.get(name);
            given.is_some_and(|given| given.data != Data::Refused)
        });
        if given.count() > 1 {
            let message = format!("expected only one of {}", element.either());
            self.report(path, node.line, message);
        }
        node
    }

    pub(super) fn list(
        &mut self,
        path: &str,
        mut elements: Vec<Node>,
        shape: &Shape,
        line: Option<usize>,
    ) -> Option<Node> {
        let (element, least) = match shape {
            Shape::List(kind, least) => (Shape::Text(*kind), *least),
            _ => (Shape::Secret, 0),
        };
        if elements.len() < least {
            let wants = ["expected", "must have"][usize::from(self.is_body)];
            self.report(path, line, format!("{wants} at least one entry"));
            return None;
        }
        let mut is_whole = true;
        for (index, node) in elements.iter_mut().enumerate() {
            let path = format!("{path}[{index}]");
            let taken = std::mem::replace(node, Node::bare(Data::Text(String::new())));
            match self.value(&path, taken, &element) {
                Some(kept) => *node = kept,
                None => is_whole = false,
            }
        }
        // No other text can stand for a secret.
        (is_whole || matches!(element, Shape::Text(_))).then_some(Node {
            data: Data::List(elements),
            line,
        })
    }
}
