/// Values at paths that are typical of configurations, and a random order in which to look up the values.
struct LookupTable {
    /// Paths such as `service12.pool7.setting3`.
    let paths: [String]
    /// The JSON text of each value: integers and short strings.
    let texts: [String]
    /// The bytes of ``texts``.
    let bytes: [[UInt8]]
    /// Random indices into ``paths``, in the order of the lookups.
    let order: [Int]

    init(count: Int) {
        paths = (0..<count).map { "service\($0 / 100).pool\($0 / 10 % 10).setting\($0 % 10)" }
        texts = (0..<count).map { $0.isMultiple(of: 2) ? "\($0)" : "\"value \($0)\"" }
        bytes = texts.map { Array($0.utf8) }
        var generator = SystemRandomNumberGenerator()
        order = (0..<(1 << 16)).map { _ in Int.random(in: 0..<count, using: &generator) }
    }
}

extension LookupTable {
    /// Returns a table of the same values, with each path prefixed with `name`.
    func under(_ name: String) -> LookupTable { LookupTable(paths: paths.map { "\(name).\($0)" }, self) }

    private init(paths: [String], _ other: LookupTable) {
        (self.paths, texts, bytes, order) = (paths, other.texts, other.bytes, other.order)
    }
}
