/// Statistics of small sets of samples.
enum Statistics {
    /// Returns the median; 0 if there are no samples.
    static func median(_ samples: [Double]) -> Double {
        let sorted = samples.sorted()
        guard !sorted.isEmpty else { return 0 }
        let middle = sorted.count / 2
        return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
    }

    /// Returns the sample that `percent` percent of the samples do not exceed; 0 if there are no samples.
    static func percentile(_ samples: [Double], _ percent: Double) -> Double {
        let sorted = samples.sorted()
        guard !sorted.isEmpty else { return 0 }
        let rank = Int((Double(sorted.count) * percent / 100).rounded(.up))
        return sorted[min(max(rank, 1), sorted.count) - 1]
    }
}
