import Glibc

/// The fuzzers by name. The program runs the fuzzer under whose name it is started: `.build-fuzz/json` is a
/// link to the program.
private let fuzzers: [String: @Sendable (UnsafeRawBufferPointer) -> Void] = [
    "json": fuzzJSON, "lines": fuzzLines, "requests": fuzzRequests, "events": fuzzEvents, "etcd": fuzzEtcd,
    "images": fuzzImages, "fields": fuzzFields, "settings": fuzzSettings, "template": fuzzTemplate,
    "archive": fuzzArchive, "damage": fuzzDamage, "snapshot": fuzzSnapshot, "schema": fuzzSchema,
    "patterns": fuzzPatterns, "names": fuzzNames, "backup": fuzzBackup,
]

/// The fuzzer to run. Access needs no lock: libFuzzer calls ``initialize(_:_:)``, which sets this variable, before it
/// passes the first input.
nonisolated(unsafe) private var chosen: (@Sendable (UnsafeRawBufferPointer) -> Void)?

/// Called by libFuzzer once, before all inputs.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>
) -> CInt {
    // Runs must not depend on the time zone of the machine.
    setenv("TZ", "UTC", 1)
    let path = arguments.pointee?[0].map { String(cString: $0) } ?? ""
    let name = path.split(separator: "/").last.map(String.init) ?? ""
    chosen = fuzzers[name]
    guard chosen != nil else {
        fatalError("unknown fuzzer \"\(name)\"; use one of: \(fuzzers.keys.sorted().joined(separator: ", "))")
    }
    return 0
}

/// Called by libFuzzer for each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    chosen?(UnsafeRawBufferPointer(start: data, count: count))
    return 0
}

/// Checks a condition that must hold for every input. If it does not, the process traps and libFuzzer saves the input.
@inline(__always)
func require(_ condition: @autoclosure () throws -> Bool, _ failure: @autoclosure () -> String) rethrows {
    if try !condition() { fatalError(failure()) }
}

// `SeededGenerator` is that of the tests.
extension SeededGenerator {
    /// A generator whose seed is a hash of the input, so that runs can be repeated.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.init(seed: bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 })
    }

    mutating func next(below bound: Int) -> Int { Int(next() % UInt64(max(bound, 1))) }
}

/// Splits the bytes in three ways: not at all, into single bytes, and into pieces of random length. Each piece is a
/// separate allocation, so that the address sanitizer detects reads beyond its end.
func splits(of bytes: UnsafeRawBufferPointer) -> [[[UInt8]]] {
    let all = [UInt8](bytes)
    var generator = SeededGenerator(bytes)
    var pieces: [[UInt8]] = []
    var rest = all[...]
    while !rest.isEmpty {
        let count = generator.next(below: 4) == 0 ? generator.next(below: rest.count) + 1 : generator.next(below: 8)
        pieces.append(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
    }
    return [[all], all.map { [$0] }, pieces]
}

/// Splits an input at zero bytes into `count` parts. Missing parts are empty; the last one may contain zero bytes.
func parts(_ bytes: UnsafeRawBufferPointer, _ count: Int) -> [[UInt8]] {
    var parts = bytes.split(separator: 0, maxSplits: count - 1, omittingEmptySubsequences: false).map { Array($0) }
    while parts.count < count { parts.append([]) }
    return parts
}
