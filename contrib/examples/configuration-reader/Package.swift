// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "configuration-reader",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In your own package:
        // .package(url: "https://github.com/OWNER/larder", from: "0.1.0", traits: ["Configuration"]),
        .package(name: "larder", path: "../../..", traits: ["Configuration"]),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
    ],
    targets: [
        .executableTarget(
            name: "follow-limit",
            dependencies: [
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "ConfigurationLarder", package: "larder"),
            ],
            path: "Sources")
    ]
)
