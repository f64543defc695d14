/// Images whose pins are being changed, with the state of each pin on disk.
///
/// The disk performs the writes to a row in the order of their submission, but their results may be handled in any
/// order. The state on disk is therefore that of the last submitted write that has succeeded, and it is known when the
/// results of all writes have been handled.
struct PinWrites: Sendable {
    /// A write that has been submitted to the disk.
    struct Write: Sendable {
        let key: ImageKey
        fileprivate let number: Int
        /// The state that the write stores; nil for the removal of the row.
        fileprivate let isPinned: Bool?
    }

    private struct Image {
        /// The number of writes whose results have not been handled.
        var pending = 0
        var isPinned: Bool
        /// The number of the write that stored this state; 0 if it is the state before all of the writes.
        var number = 0
    }

    private var images: [ImageKey: Image] = [:]
    private var count = 0

    var isEmpty: Bool { images.isEmpty }

    /// Adds a change of a pin.
    ///
    /// - Parameter wasPinned: the state before the change. It is on disk unless another write is in progress.
    mutating func begin(_ key: ImageKey, _ isPinned: Bool, before wasPinned: Bool) -> Write {
        count += 1
        images[key, default: Image(isPinned: wasPinned)].pending += 1
        return Write(key: key, number: count, isPinned: isPinned)
    }

    /// Adds a write that replaces or removes the row of an image.
    ///
    /// - Parameter isPinned: the state in the new row; nil if the row is removed
    /// - Returns: nil if no pin of the image is being changed
    mutating func join(_ key: ImageKey, _ isPinned: Bool?) -> Write? {
        guard images[key] != nil else { return nil }
        count += 1
        images[key]?.pending += 1
        return Write(key: key, number: count, isPinned: isPinned)
    }

    /// Handles the result of a write.
    ///
    /// - Returns: the state on disk; nil if other writes to the row are in progress
    mutating func end(_ write: Write, hasSucceeded: Bool) -> Bool? {
        guard var image = images[write.key] else { return nil }
        image.pending -= 1
        if hasSucceeded, let isPinned = write.isPinned, write.number > image.number {
            (image.isPinned, image.number) = (isPinned, write.number)
        }
        images[write.key] = image.pending > 0 ? image : nil
        return image.pending > 0 ? nil : image.isPinned
    }
}
