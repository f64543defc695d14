// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "hummingbird-server",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In your own package:
        // .package(url: "https://github.com/OWNER/larder", from: "0.1.0", traits: ["ServiceLifecycle"]),
        .package(name: "larder", path: "../../..", traits: ["ServiceLifecycle"]),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    ],
    targets: [
        .executableTarget(
            name: "hummingbird-server",
            dependencies: [
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "LarderServiceLifecycle", package: "larder"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Sources")
    ]
)
