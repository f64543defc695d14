/// A function that a tag can call on a value: `{{json(name)}}`.
enum Function: String, Sendable {
    // For all values.
    case json
    // For objects. `enumerated` and `sorted` each return a list of the members. An element of the list has `key` and
    // `value`.
    case enumerated, sorted
    // For arrays, objects and the lists of `enumerated` and `sorted`; `empty` also for strings and missing values.
    case count, empty
    // For arrays and the lists of `enumerated` and `sorted`; `reversed` also for strings.
    case first, last, reversed
    // For strings.
    case uppercased, lowercased, capitalized
    // For integers.
    case plusone, minusone, equalzero, even, odd
    // For the position of the current element in a list: `{{index()}}`. `first`, `last`, `even` and `odd` can also be
    // called without an argument, for the same position.
    case index

    /// Whether the function can be called without an argument. It then applies to the position of the current element
    /// in a list.
    var isOfPlaces: Bool { result(forElement: 0, of: 1) != nil }

    /// Returns the result for a string; nil if the function does not apply to strings.
    func result(for text: String) -> Operand? {
        switch self {
        case .empty: .flag(text.isEmpty)
        case .uppercased: .string(text.uppercased())
        case .lowercased: .string(text.lowercased())
        case .capitalized: .string(text.capitalizedWords)
        case .reversed: .string(String(text.reversed()))
        default: nil
        }
    }

    /// Returns the result for an integer; nil if the function does not apply to integers or the result overflows.
    func result(for number: Int) -> Operand? {
        switch self {
        case .plusone: number == .max ? nil : .int(number + 1)
        case .minusone: number == .min ? nil : .int(number - 1)
        case .equalzero: .flag(number == 0)
        case .even: .flag(number & 1 == 0)
        case .odd: .flag(number & 1 == 1)
        default: nil
        }
    }

    /// Returns the result for the position of an element in a list; nil if the function does not apply to positions.
    func result(forElement index: Int, of count: Int) -> Operand? {
        switch self {
        case .index: .int(index)
        case .first: .flag(index == 0)
        case .last: .flag(index == count - 1)
        case .even: .flag(index & 1 == 0)
        case .odd: .flag(index & 1 == 1)
        default: nil
        }
    }
}

extension String {
    /// The string with the first letter of each word in title case and all other letters in lower case. Words consist
    /// of letters and of apostrophes between letters.
    fileprivate var capitalizedWords: String {
        var result = ""
        var isInWord = false
        for character in self {
            if character.isLetter {
                let scalars = isInWord ? character.lowercased() : character.capital
                result += scalars
                isInWord = true
            } else {
                result.append(character)
                isInWord = isInWord && (character == "'" || character == "\u{2019}")
            }
        }
        return result
    }
}

extension Character {
    /// The character in title case, which differs from upper case for a few characters, such as ǅ.
    fileprivate var capital: String {
        var result = ""
        for (index, scalar) in unicodeScalars.enumerated() {
            result += index == 0 ? scalar.properties.titlecaseMapping : scalar.properties.lowercaseMapping
        }
        return result
    }
}
