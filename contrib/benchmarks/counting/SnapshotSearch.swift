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
        do {
            let index = try SnapshotFileIndex(bytes)
            let found = PathKey.with(Array(arguments.dropFirst(2)), seed: index.seed) { index.find($0, in: bytes) }
            exit(found == nil ? 1 : 0)
        } catch {
            fatalError("\(error)")
        }
    }
}
