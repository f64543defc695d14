import ArgumentParser
import Foundation

/// `larder-bench image make`: images for an origin.
struct ImageMake: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "make", abstract: "Write valid PNG images of a size, each with other bytes.",
        discussion: "Writes 0.png, 1.png and so on.")

    @Option(help: ArgumentHelp("Where to write them.", valueName: "directory"))
    var directory: String

    @Option(help: "How many.")
    var count = 8

    @Option(help: "Bytes of each.")
    var bytes = 50_000

    func validate() throws {
        guard count >= 1, bytes >= 100 else { throw ValidationError("--count is at least 1, --bytes at least 100.") }
    }

    func run() throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        for number in 0..<count {
            try Data(Self.png(seed: UInt64(number), size: bytes))
                .write(to: URL(fileURLWithPath: "\(directory)/\(number).png"))
        }
    }

    /// One grey pixel, and noise in a private chunk.
    private static func png(seed: UInt64, size: Int) -> [UInt8] {
        let start: [UInt8] =
            [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + chunk("IHDR", [0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0])
        // One stored block of a filter's number and a pixel (RFC 1950, RFC 1951).
        let end = chunk("IDAT", [0x78, 1, 1, 2, 0, 0xFD, 0xFF, 0, 0, 0, 2, 0, 1]) + chunk("IEND", [])
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        let noise = (0..<(size - start.count - end.count - 12)).map { _ in
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return UInt8(truncatingIfNeeded: state >> 56)
        }
        return start + chunk("laRr", noise) + end
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        func number(_ value: UInt32) -> [UInt8] {
            withUnsafeBytes(of: value.bigEndian) { Array($0) }
        }
        let content = Array(type.utf8) + data
        var checksum: UInt32 = ~0
        for byte in content {
            checksum ^= UInt32(byte)
            for _ in 0..<8 { checksum = checksum & 1 == 1 ? 0xEDB8_8320 ^ (checksum >> 1) : checksum >> 1 }
        }
        return number(UInt32(data.count)) + content + number(~checksum)
    }
}
