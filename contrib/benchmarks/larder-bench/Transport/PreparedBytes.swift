/// Bytes at a constant address, for data that is sent repeatedly.
final class PreparedBytes {
    let memory: UnsafeMutableRawBufferPointer

    init(_ bytes: [UInt8]) {
        memory = .allocate(byteCount: bytes.count, alignment: 16)
        memory.copyBytes(from: bytes)
    }

    deinit { memory.deallocate() }

    var buffer: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
}
