/// Bytes that stay in one place for as long as somebody holds them: what is sent again and again.
final class PreparedBytes {
    let memory: UnsafeMutableRawBufferPointer

    init(_ bytes: [UInt8]) {
        memory = .allocate(byteCount: bytes.count, alignment: 16)
        memory.copyBytes(from: bytes)
    }

    deinit { memory.deallocate() }

    var buffer: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
}
