/// What a tag may call on a value: `{{json(name)}}`.
enum Function: String, Sendable {
    // For every value.
    case json
    // For arrays and objects; `empty`, `reversed` also for strings.
    case count, empty, first, last, reversed, enumerated, sorted
    // For strings.
    case uppercased, lowercased, capitalized
    // For integers.
    case plusone, minusone, equalzero, even, odd
    // For the place within a list, as are `first`, `last`, `even` and `odd`: `{{index()}}`.
    case index

    /// Whether it can be called without a name, within a list.
    var isOfPlaces: Bool {
        switch self {
        case .index, .first, .last, .even, .odd: true
        default: false
        }
    }

    /// What it makes of a string; nil where it is not for strings.
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

    /// What it makes of an integer; nil where it is not for integers, or the result is none that fits.
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

    /// What it says about the place of an element within a list; nil where it is not for that.
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
    /// Each word with a capital and small letters behind it. Words consist of letters and of apostrophes between these.
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
    /// Its title case, as in ǅ, which differs from upper case for a few.
    fileprivate var capital: String {
        var result = ""
        for (index, scalar) in unicodeScalars.enumerated() {
            result += index == 0 ? scalar.properties.titlecaseMapping : scalar.properties.lowercaseMapping
        }
        return result
    }
}
