package import Foundation

/// The working copy that the tests were compiled from.
package enum Checkout {
    package static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
}
