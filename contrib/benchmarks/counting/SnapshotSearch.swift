import Glibc

/// Searches a snapshot file for a path as clients do: `SnapshotSearch FILE NAME...`, with the names in the path. Exits with
/// status 1 if the file has no value at the path. `count-instructions.sh` compiles this program together with the reader
/// in `Sources/LarderSnapshotFile`.
@main
enum SnapshotSearch {
    static func main() {
        let arguments = CommandLine.arguments
        let file = open(arguments[1], O_RDONLY | O_CLOEXEC)
        let size = Int(lseek(file, 0, SEEK_END))
        guard size > 0, let start = mmap(nil, size, PROT_READ, MAP_SHARED, file, 0), start != MAP_FAILED else {
            fatalError("cannot map \(arguments[1])")
        }
        let bytes = UnsafeRawBufferPointer(start: start, count: size)
        let key = arguments.dropFirst(2).flatMap { [SnapshotFileLayout.separator] + Array($0.utf8) }
        do {
            let index = try SnapshotFileIndex(bytes)
            exit(key.withUnsafeBytes { index.find($0, in: bytes) } == nil ? 1 : 0)
        } catch {
            fatalError("\(error)")
        }
    }
}
