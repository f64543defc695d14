// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "cross-platform",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In your own package:
        // .package(url: "https://github.com/OWNER/larder", from: "0.1.0", traits: []),
        .package(name: "larder", path: "../../..", traits: [])
    ],
    targets: [
        .executableTarget(
            name: "follow-settings",
            dependencies: [
                // The library is built on Linux only. On other systems, `canImport(LarderClient)` is false.
                .product(name: "LarderClient", package: "larder", condition: .when(platforms: [.linux]))
            ],
            path: "Sources")
    ]
)
