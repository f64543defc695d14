internal import LarderImageFormats
internal import Logging

/// Verifies the files of blobs that this process has not opened yet. Concurrent requests for a blob share one check.
/// The verifier is part of an ``ImageCache`` and isolated to that actor.
final class BlobVerifier {
    private let disk: ImageDiskCache
    private let rows: ImageRows
    private let log: ImageCacheLog
    private var checks: [BlobDigest: Task<ImageError?, Never>] = [:]

    init(disk: ImageDiskCache, rows: ImageRows, log: ImageCacheLog) {
        (self.disk, self.rows, self.log) = (disk, rows, log)
    }

    /// Verifies the file of a blob. If it is damaged or missing, removes the blob's rows.
    ///
    /// - Throws: ``ImageError`` if the file cannot be read or the rows cannot be removed
    func verify(_ digest: BlobDigest, on cache: isolated ImageCache) async throws(ImageError) {
        let check = checks[digest] ?? Task { await self.check(digest, on: cache) }
        checks[digest] = check
        let error = await check.value
        if checks[digest] == check { checks[digest] = nil }
        if let error { throw error }
    }

    private func check(_ digest: BlobDigest, on cache: isolated ImageCache) async -> ImageError? {
        var isUsable = false
        if disk.blobs.retain(digest) {
            defer { cache.release(digest) }
            do throws(ImageError) {
                try await disk.verify(digest)
                isUsable = true
            } catch {
                guard error.code == .damagedBlob else { return error }
                log.logger.warning("an image on disk is damaged", metadata: ["error": "\(error)"])
                // If the image was downloaded again during the check, its new file counts as verified, and the rows
                // stay.
                isUsable = disk.blobs.isVerified(digest)
            }
        }
        if isUsable { return nil }
        do throws(ImageError) { try await rows.removeAll(of: digest) } catch { return error }
        return nil
    }
}
