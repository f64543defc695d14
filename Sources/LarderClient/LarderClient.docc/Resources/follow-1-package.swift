// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "shop",
    traits: [.trait(name: "AgentTests", description: "Builds the tests that need an agent.")],
    dependencies: [
        .package(
            url: "https://github.com/OWNER/larder", from: "0.1.0",
            traits: [.trait(name: "Agent", condition: .when(traits: ["AgentTests"]))])
    ],
    targets: [
        .target(name: "Shop", dependencies: [.product(name: "LarderClient", package: "larder")]),
        .testTarget(
            name: "ShopTests",
            dependencies: [
                "Shop",
                .product(name: "LarderTesting", package: "larder", condition: .when(traits: ["AgentTests"])),
            ]),
    ]
)
