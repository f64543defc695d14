internal import AsyncHTTPClient
internal import CZlib
internal import NIOHTTP1

/// Decodes a body with the content coding gzip or deflate (RFC 9110, section 8.4.1), piece by piece and in bounded
/// memory.
///
/// Submit each received piece with ``receive(_:)``, then call ``next()`` until it returns nil.
package final class Inflater {
    /// The formats of the compressed data.
    package enum Format: Sendable {
        /// RFC 1952, one or several members.
        case gzip
        /// RFC 1950, which is the content coding deflate.
        case zlib
        /// RFC 1951, which some servers send as deflate.
        case raw
        /// `gzip` or `zlib`, which the first bytes decide.
        case gzipOrZlib
    }

    /// The reason why a body cannot be decoded.
    package enum Failure: Error, Sendable, Hashable {
        /// The data is invalid.
        case invalid
        /// The decoded body has more bytes than ``Inflater/maxRatio`` allows.
        case expandsTooMuch
    }

    /// The maximum number of decoded bytes for each received byte. It applies to bodies of more than 1 MiB.
    package static let maxRatio = 100
    private static let freeBytes = 1 << 20
    /// The maximum number of bytes that one call of ``next()`` returns.
    private static let block = 64 << 10

    private let format: Format
    private let isRatioLimited: Bool
    /// zlib keeps the address of the stream, so the stream must not move.
    private let stream: UnsafeMutablePointer<z_stream>
    /// The received bytes that were not decoded yet, from ``offset``.
    private var input: [UInt8] = []
    private var offset = 0
    private var (received, decoded) = (0, 0)
    /// Whether the last block was full, so that more output may be available without input.
    private var hasPendingOutput = false
    /// Whether the last member has ended.
    package private(set) var isComplete = false

    /// - Parameter isRatioLimited: whether ``maxRatio`` applies. A caller that sets this to false limits the decoded
    ///   bytes itself.
    package init(_ format: Format, isRatioLimited: Bool = true) {
        self.format = format
        self.isRatioLimited = isRatioLimited
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let windowBits: Int32 =
            switch format {
            case .gzip: 15 + 16
            case .zlib: 15
            case .raw: -15
            case .gzipOrZlib: 15 + 32
            }
        // This fails only if there is no memory, or if the installed library is older than its header.
        let result = larder_inflate_init(stream, windowBits)
        precondition(result == Z_OK, "cannot initialize zlib")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Submits the next bytes of the encoded body, after ``next()`` has returned nil.
    package func receive(_ bytes: [UInt8]) {
        input = Array(input[offset...]) + bytes
        offset = 0
        received += bytes.count
    }

    /// Returns the next bytes of the decoded body, at least one; nil if more input is needed or the body is complete.
    ///
    /// - Throws: ``Failure``
    package func next() throws(Failure) -> [UInt8]? {
        while offset < input.count {
            // Another member may follow. Bytes after the end that begin no member are ignored, as gzip(1) does.
            if isComplete {
                guard format == .gzip || format == .gzipOrZlib, input[offset] == 0x1F else {
                    offset = input.count
                    return nil
                }
                guard inflateReset(stream) == Z_OK else { throw .invalid }
                isComplete = false
            }
            let bytes = try inflateBlock()
            if !bytes.isEmpty { return bytes }
        }
        // Output of the last input may remain in the library.
        guard !isComplete, hasPendingOutput else { return nil }
        let bytes = try inflateBlock()
        return bytes.isEmpty ? nil : bytes
    }

    /// Decodes at most one block. Each call consumes input, produces output, or ends the loop of its caller.
    private func inflateBlock() throws(Failure) -> [UInt8] {
        var result = Z_OK
        var used = 0
        let block = Self.block
        let output = [UInt8](unsafeUninitializedCapacity: block) { output, count in
            input.withUnsafeMutableBufferPointer { input in
                stream.pointee.next_in = input.baseAddress.map { $0 + offset }
                stream.pointee.avail_in = UInt32(input.count - offset)
                stream.pointee.next_out = output.baseAddress
                stream.pointee.avail_out = UInt32(block)
                result = inflate(stream, Z_NO_FLUSH)
                used = input.count - offset - Int(stream.pointee.avail_in)
                count = block - Int(stream.pointee.avail_out)
            }
        }
        offset += used
        hasPendingOutput = output.count == block
        switch result {
        case Z_STREAM_END: isComplete = true
        case Z_OK: break
        // No progress is possible without more input.
        case Z_BUF_ERROR where offset == input.count: break
        default: throw .invalid
        }
        decoded += output.count
        if isRatioLimited, decoded > max(Self.freeBytes, received * Self.maxRatio) { throw .expandsTooMuch }
        return output
    }

    /// The decoder of a document or an event stream; nil if the response has no content coding.
    ///
    /// Documents and events are limited by their own sizes. Repetitive text may be compressed more than a thousandfold,
    /// so the ratio is not limited.
    ///
    /// - Throws: `unsupportedEncoding` for a content coding that was not requested
    convenience init?(for response: HTTPClientResponse, from url: FetchURL) throws(UpstreamError) {
        let codings = response.headers[canonicalForm: "Content-Encoding"].filter { $0.lowercased() != "identity" }
        guard let coding = codings.first?.lowercased() else { return nil }
        guard codings.count == 1, coding == "gzip" || coding == "deflate" else {
            throw UpstreamError(
                .unsupportedEncoding,
                "\(url.display) sent the unrequested content encoding \"\(codings.joined(separator: ", "))\"; serve "
                    + "gzip or none", status: Int(response.status.code))
        }
        self.init(.gzipOrZlib, isRatioLimited: false)
    }

    /// The next decoded bytes of a document or an event stream, as ``next()`` returns them.
    func next(from url: FetchURL) throws(UpstreamError) -> [UInt8]? {
        do throws(Failure) {
            return try next()
        } catch {
            throw UpstreamError(
                .unsupportedEncoding,
                "\(url.display) sent an invalid compressed body; the last good document stays in use")
        }
    }

    /// The error for a body that ended before the compressed data was complete.
    static func truncated(_ url: FetchURL) -> UpstreamError {
        UpstreamError(
            .truncated,
            "\(url.display) sent an incomplete compressed body; the last good document stays in use")
    }
}
