import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderProtocol

/// The arguments of verbs that act on one image.
struct ImageArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The URL of the image: http:// or https://.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp(
            "Identify the image by this key instead of the query of the URL, for example if the query contains a "
                + "signature that differs each time.", valueName: "key"))
    var cacheKey: String?

    /// The image as the protocol identifies it.
    var reference: ImageReference { ImageReference(url: url, cacheKey: cacheKey) }
}

private let policies = ImagePolicy.allCases.map(\.rawValue).joined(separator: ", ")

/// The options for how a request uses the cache and for the maximum age of the image.
struct ImagePolicyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("How to use the cache and the network: \(policies).", valueName: "policy"),
        completion: .list(ImagePolicy.allCases.map(\.rawValue)),
        transform: { text in
            guard let policy = ImagePolicy(rawValue: text) else {
                throw ValidationError("write one of \(policies)")
            }
            return policy
        })
    var policy = ImagePolicy.default

    @Option(
        help: ArgumentHelp(
            "The longest acceptable time since the origin confirmed the image, such as 90s, 10m or 7d.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var maxAge: TimeSpan?

    /// ``maxAge`` in whole seconds, rounded down so that no returned image is older.
    var maximumAgeSeconds: Int? { maxAge.map { $0.milliseconds / 1000 } }
}
