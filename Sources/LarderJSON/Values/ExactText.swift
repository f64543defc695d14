/// A text that is compared as UTF-8, as a key of a dictionary or an element of a set.
///
/// `==` of `String` ignores differences in Unicode normalization. Names, patterns and other texts from outside are
/// different if their bytes are.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool { left.text.isSpelled(as: right.text) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
