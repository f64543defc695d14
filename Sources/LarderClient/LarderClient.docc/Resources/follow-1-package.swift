// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "shop",
    dependencies: [
        .package(url: "https://github.com/OWNER/larder", from: "0.1.0", traits: ["Agent"])
    ],
    targets: [
        .target(name: "Shop", dependencies: [.product(name: "LarderClient", package: "larder")]),
        .testTarget(name: "ShopTests", dependencies: ["Shop", .product(name: "LarderTesting", package: "larder")]),
    ]
)
