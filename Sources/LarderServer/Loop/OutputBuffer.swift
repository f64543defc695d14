import LarderJSON

/// The output of the connection that is being served. All connections of an event loop share this buffer, which is
/// empty whenever the loop switches to another connection.
struct OutputBuffer {
    private static let capacity = 64 * 1024
    /// A buffer whose capacity has grown beyond this number of bytes is freed after its content was sent.
    private static let maxKeptCapacity = 512 * 1024

    var writer = JSONWriter(reservingCapacity: Self.capacity)
    /// The file whose descriptor is sent with the first byte of the output; nil for none.
    var file: PassedFile?

    mutating func clear() {
        file = nil
        if writer.bytes.capacity > Self.maxKeptCapacity {
            writer = JSONWriter(reservingCapacity: Self.capacity)
        } else {
            writer.removeAll()
        }
    }
}
