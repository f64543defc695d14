/// Values under paths of the kind that configurations have, and an order by chance in which they are looked up.
struct LookupTable {
    /// `service12.pool7.setting3`
    let paths: [String]
    /// The text of each value in JSON: whole numbers and short strings.
    let texts: [String]
    /// Indices of paths.
    let order: [Int]

    init(count: Int) {
        paths = (0..<count).map { "service\($0 / 100).pool\($0 / 10 % 10).setting\($0 % 10)" }
        texts = (0..<count).map { $0.isMultiple(of: 2) ? "\($0)" : "\"value \($0)\"" }
        var generator = SystemRandomNumberGenerator()
        order = (0..<(1 << 16)).map { _ in Int.random(in: 0..<count, using: &generator) }
    }
}

extension LookupTable {
    /// The same values below a name.
    func under(_ name: String) -> LookupTable { LookupTable(paths: paths.map { "\(name).\($0)" }, self) }

    private init(paths: [String], _ other: LookupTable) {
        (self.paths, texts, order) = (paths, other.texts, other.order)
    }
}
