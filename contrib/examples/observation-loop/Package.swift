// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "observation-loop",
    platforms: [.macOS(.v26)],
    dependencies: [
        // In your own package:
        // .package(url: "https://github.com/OWNER/larder", from: "0.1.0", traits: []),
        .package(name: "larder", path: "../../..", traits: [])
    ],
    targets: [
        .executableTarget(
            name: "observation-loop", dependencies: [.product(name: "LarderClient", package: "larder")],
            path: "Sources")
    ]
)
