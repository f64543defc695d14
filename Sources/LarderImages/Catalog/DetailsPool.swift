/// The details of recently used images, by slot. They are loaded again if they were dropped, so that the memory for a
/// million images does not depend on how many of them have been used.
struct DetailsPool: Sendable {
    private let limit: Int
    private var details: [ImageDetails?] = []
    /// The slots in the order in which their details were added; a ring when it has ``limit`` slots. A slot stays after
    /// its details were removed.
    private var order: [UInt32] = []
    /// The place of the oldest slot in the ring.
    private var oldest = 0

    /// - Parameter limit: the maximum number of details, at least 1
    init(limit: Int = 100_000) { self.limit = limit }

    /// The details of the image in a slot; nil until they have been loaded, and after they were dropped.
    subscript(slot: UInt32) -> ImageDetails? {
        get { Int(slot) < details.count ? details[Int(slot)] : nil }
        set {
            if Int(slot) >= details.count {
                guard newValue != nil else { return }
                details += Array(repeating: nil, count: Int(slot) + 1 - details.count)
            }
            let isNew = details[Int(slot)] == nil
            details[Int(slot)] = newValue
            if isNew, newValue != nil { add(slot) }
        }
    }

    /// Adds a slot to the ring, and drops the details of the oldest one if the ring is full.
    private mutating func add(_ slot: UInt32) {
        guard order.count == limit else { return order.append(slot) }
        if order[oldest] != slot { details[Int(order[oldest])] = nil }
        order[oldest] = slot
        oldest = (oldest + 1) % limit
    }

    /// The number of images with details, for tests.
    var count: Int { details.count { $0 != nil } }
}
