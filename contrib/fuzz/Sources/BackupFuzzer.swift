import LarderDigest
import LarderEncoding
import LarderJSON
@testable import LarderCommand

/// The input is a backup without its last line. The fuzzer adds that line with the correct digest, because the reader would
/// reject almost every input without it. It checks that a backup that was read and written again has the same content.
@Sendable
func fuzzBackup(_ input: UnsafeRawBufferPointer) {
    var bytes = [UInt8](input)
    if bytes.last != UInt8(ascii: "\n") { bytes.append(UInt8(ascii: "\n")) }
    bytes += Array("{\"sha256\":\"\(SHA256.hash(bytes).hex)\"}\n".utf8)
    guard let backup = try? BackupFile(decoding: bytes, name: "input") else { return }
    guard let again = try? BackupFile(decoding: backup.encoded(), name: "copy") else {
        fatalError("a written backup cannot be read")
    }
    require(again == backup, "a backup changes when it is written and read")
}
