// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "command-line-tool",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In your own package:
        // .package(url: "https://github.com/OWNER/larder", from: "0.1.0", traits: []),
        .package(name: "larder", path: "../../..", traits: [])
    ],
    targets: [
        .executableTarget(
            name: "search-limit", dependencies: [.product(name: "LarderClient", package: "larder")], path: "Sources")
    ]
)
