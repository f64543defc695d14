// `import LarderClient` is enough to use the whole library, including JSON values.
@_exported public import LarderClientCore
public import FoundationEssentials

extension LarderTime {
    /// The time as a date of Foundation.
    public var date: Date {
        let (seconds, attoseconds) = since1970.components
        return Date(timeIntervalSince1970: Double(seconds) + Double(attoseconds) / 1e18)
    }
}
