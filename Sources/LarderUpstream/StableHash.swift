/// A hash that gives the same number for the same bytes in every process, on every host, in every version.
///
/// Swift's own `Hasher` is seeded anew in each process. FNV-1a (draft-eastlake-fnv) is stable and short; its upper bits
/// are weak for short strings that differ in the last byte, as host names do, so its result is mixed once more with the
/// finalizer of SplitMix64 (Steele, Lea, Flood 2014).
enum StableHash {
    /// 64 bits of FNV-1a.
    static func fnv1a(_ text: String) -> UInt64 {
        text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
    }

    /// 64 bits that are well mixed.
    static func mixed(_ text: String) -> UInt64 {
        var hash = fnv1a(text)
        hash = (hash ^ (hash >> 30)) &* 0xbf58_476d_1ce4_e5b9
        hash = (hash ^ (hash >> 27)) &* 0x94d0_49bb_1331_11eb
        return hash ^ (hash >> 31)
    }

    /// The share `mixed / 2^64` of a span.
    static func share(of span: Duration, for text: String) -> Duration {
        let nanoseconds = UInt64(max(0, span.wholeNanoseconds))
        return .nanoseconds(Int64(mixed(text).multipliedFullWidth(by: nanoseconds).high))
    }
}
