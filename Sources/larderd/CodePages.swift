import Glibc
import LarderPlatform

/// The pages of machine code that are mapped into this process.
enum CodePages {
    /// Releases all code pages. Pages that are used again are mapped from the page cache, which takes less than a
    /// millisecond in total. The other pages were only needed at the start, to parse the command line, read the
    /// settings and open the state directory.
    ///
    /// Data is not released: relocated data differs from the file, so it would be lost (madvise(2), MADV_DONTNEED).
    static func release() {
        for range in ranges(ofMaps: maps()) {
            // madvise fails only for a range that is no longer mapped.
            madvise(UnsafeMutableRawPointer(bitPattern: range.lowerBound), range.count, MADV_DONTNEED)
        }
    }

    /// Parses `/proc/PID/maps` (proc(5)) and returns the ranges of mapped code: `START-END r-xp OFFSET DEVICE INODE
    /// PATH`.
    static func ranges(ofMaps text: String) -> [Range<UInt>] {
        text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
            guard fields.count == 6, fields[1] == "r-xp", fields[5].drop(while: { $0 == " " }).hasPrefix("/")
            else { return nil }
            let ends = fields[0].split(separator: "-")
            guard ends.count == 2, let start = UInt(ends[0], radix: 16), let end = UInt(ends[1], radix: 16),
                start < end
            else { return nil }
            return start..<end
        }
    }

    private static func maps() -> String {
        let file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        return String(decoding: (try? readAll(from: file)) ?? [], as: UTF8.self)
    }
}
