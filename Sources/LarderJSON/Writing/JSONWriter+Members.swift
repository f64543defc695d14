extension JSONWriter {
    public mutating func member(_ name: StaticString, _ text: String) {
        self.name(name)
        string(text)
    }

    /// A member that is an integer.
    public mutating func member(_ name: StaticString, _ number: Int) {
        self.name(name)
        int(number)
    }

    public mutating func member(_ name: StaticString, _ truth: Bool) {
        self.name(name)
        bool(truth)
    }

    /// A member of another document, compact.
    public mutating func member(_ name: StaticString, _ value: JSONValue) {
        self.name(name)
        self.value(value)
    }

    /// A member that is a string, or none.
    public mutating func member(_ name: StaticString, _ text: String?) {
        if let text { member(name, text) }
    }

    /// A member that is an integer, or none.
    public mutating func member(_ name: StaticString, _ number: Int?) {
        if let number { member(name, number) }
    }

    /// A member of another document, compact, or none.
    public mutating func member(_ name: StaticString, _ value: JSONValue?) {
        if let value { member(name, value) }
    }
}
