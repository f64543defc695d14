/// One value of a settings file, and where it stands.
struct SettingsValue {
    enum Content {
        case null
        case bool(Bool)
        /// A number, with its text for messages.
        case number(Double, text: String)
        case string(String)
        case array([SettingsValue])
        case object([Member])
    }

    /// A member of an object. Names are distinct within one object.
    struct Member {
        let name: String
        /// Where the name begins.
        let offset: Int
        let value: SettingsValue
    }

    let content: Content
    /// Where the value begins in the text, in Unicode scalars.
    let offset: Int

    /// The value as an error shows it: its text when it is short and simple, else its type.
    var shown: String {
        switch content {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(_, let text): text.count <= 40 ? text : "a number"
        case .string(let text): SettingsText.quoted(text)
        case .array: "an array"
        case .object: "an object"
        }
    }
}
