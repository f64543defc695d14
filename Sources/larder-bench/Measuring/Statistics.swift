/// Figures of small sets of samples.
enum Statistics {
    /// The middle of `samples`; 0 when there are none.
    static func median(_ samples: [Double]) -> Double {
        let sorted = samples.sorted()
        guard !sorted.isEmpty else { return 0 }
        let middle = sorted.count / 2
        return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
    }

    /// The middle of the quotients of samples of the same rounds; 0 when there are none.
    static func medianRatio(_ samples: [Double], to others: [Double]) -> Double {
        median(zip(samples, others).filter { $0.1 > 0 }.map { $0.0 / $0.1 })
    }

    /// How much `values` grow with `positions`: the slope of the line through them with the least squares; 0 for a single
    /// position.
    static func slope(_ positions: [Double], _ values: [Double]) -> Double {
        let count = Double(positions.count)
        guard count > 0 else { return 0 }
        let middle = positions.reduce(0, +) / count
        let level = values.reduce(0, +) / count
        var product = 0.0
        var square = 0.0
        for (position, value) in zip(positions, values) {
            product += (position - middle) * (value - level)
            square += (position - middle) * (position - middle)
        }
        return square > 0 ? product / square : 0
    }

    /// The sample that `percent` of all samples do not exceed; 0 when there are none.
    static func percentile(_ samples: [Double], _ percent: Double) -> Double {
        let sorted = samples.sorted()
        guard !sorted.isEmpty else { return 0 }
        let rank = Int((Double(sorted.count) * percent / 100).rounded(.up))
        return sorted[min(max(rank, 1), sorted.count) - 1]
    }
}
