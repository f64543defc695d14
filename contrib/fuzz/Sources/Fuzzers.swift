import Glibc

/// What is fuzzed, each under the name by which the program is called: `.build-fuzz/json` is a link to it.
private let fuzzers: [String: @Sendable (UnsafeRawBufferPointer) -> Void] = [
    "json": fuzzJSON, "lines": fuzzLines, "requests": fuzzRequests, "events": fuzzEvents, "etcd": fuzzEtcd,
    "images": fuzzImages, "fields": fuzzFields, "settings": fuzzSettings, "template": fuzzTemplate,
    "archive": fuzzArchive, "damage": fuzzDamage, "snapshot": fuzzSnapshot,
]

/// Set before the first input, and never again.
nonisolated(unsafe) private var chosen: (@Sendable (UnsafeRawBufferPointer) -> Void)?

/// libFuzzer calls it before anything else.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>
) -> CInt {
    // What is under test may ask the process for locale or time; it always gets the same.
    setenv("TZ", "UTC", 1)
    let path = arguments.pointee?[0].map { String(cString: $0) } ?? ""
    let name = path.split(separator: "/").last.map(String.init) ?? ""
    chosen = fuzzers[name]
    guard chosen != nil else {
        fatalError("there is no fuzzer \(name): \(fuzzers.keys.sorted().joined(separator: ", "))")
    }
    return 0
}

/// libFuzzer calls it for each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    chosen?(UnsafeRawBufferPointer(start: data, count: count))
    return 0
}

/// A rule that holds whatever the input is. Where it does not, the process ends, and libFuzzer keeps the input.
@inline(__always)
func require(_ holds: @autoclosure () throws -> Bool, _ rule: @autoclosure () -> String) rethrows {
    if try !holds() { fatalError(rule()) }
}

/// Chance that the input decides: the same input, the same numbers (SplitMix64).
struct Chance {
    private var state: UInt64

    init(_ bytes: UnsafeRawBufferPointer) {
        state = bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
    }

    mutating func next(below bound: Int) -> Int {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return Int((mixed ^ (mixed >> 31)) % UInt64(max(bound, 1)))
    }
}

/// The same bytes as they may arrive: at once, byte by byte, and in pieces by chance. Each piece has memory of its own, so that
/// the address sanitizer sees who reads beyond it.
func arrivals(_ bytes: UnsafeRawBufferPointer) -> [[[UInt8]]] {
    let all = [UInt8](bytes)
    var chance = Chance(bytes)
    var pieces: [[UInt8]] = []
    var rest = all[...]
    while !rest.isEmpty {
        let count = chance.next(below: 4) == 0 ? chance.next(below: rest.count) + 1 : chance.next(below: 8)
        pieces.append(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
    }
    return [[all], all.map { [$0] }, pieces]
}

/// The parts of an input between zero bytes, which no text under test contains.
func parts(_ bytes: UnsafeRawBufferPointer, _ count: Int) -> [[UInt8]] {
    var parts = bytes.split(separator: 0, maxSplits: count - 1, omittingEmptySubsequences: false).map { Array($0) }
    while parts.count < count { parts.append([]) }
    return parts
}
