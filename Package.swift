// swift-tools-version: 6.2

import PackageDescription

/// The compiler settings of all Swift targets.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// A library target, or an executable target if `executable`. `dependencies` are the modules that the target may
/// import.
func larder(_ name: String, _ dependencies: [Target.Dependency] = [], executable: Bool = false) -> Target {
    executable
        ? .executableTarget(name: name, dependencies: dependencies, swiftSettings: strict)
        : .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

/// The tests of one target, in the folder of the same name.
func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: ["TestSupport"] + dependencies, swiftSettings: strict)
}

/// The condition of packages that only the agent and its command-line tool use. A program that depends on this package
/// without the trait does not resolve them. It resolves swift-nio, and what swift-nio needs: swift-atomics, swift-collections
/// and swift-system.
let agent = TargetDependencyCondition.when(traits: ["Agent"])
/// The condition of packages that the agent and the gateway use.
let server = TargetDependencyCondition.when(traits: ["Agent", "Gateway"])
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio", condition: agent)
let nioHTTP = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio", condition: server)
let httpClient = Target.Dependency.product(name: "AsyncHTTPClient", package: "async-http-client", condition: agent)
let logging = Target.Dependency.product(name: "Logging", package: "swift-log", condition: server)
let lifecycle = Target.Dependency.product(
    name: "ServiceLifecycle", package: "swift-service-lifecycle",
    condition: .when(traits: ["Agent", "ServiceLifecycle"]))
let clientSystem = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system", condition: server)
let signals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle", condition: agent)
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser", condition: agent)
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections", condition: server)
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections", condition: server)
let configuration = Target.Dependency.product(
    name: "Configuration", package: "swift-configuration", condition: .when(traits: ["Configuration"]))
let configurationTesting = Target.Dependency.product(
    name: "ConfigurationTesting", package: "swift-configuration", condition: .when(traits: ["Configuration"]))

let package = Package(
    name: "larder",
    // Larder runs on Linux with glibc only, for which SwiftPM has no entry. This entry does not mean that Larder compiles
    // on macOS. A package that is also built on macOS depends on the products with `.when(platforms: [.linux])`; see
    // contrib/examples/cross-platform.
    platforms: [.macOS(.v15)],
    products: [
        .library(name: "LarderClient", targets: ["LarderClient"]),
        .library(name: "LarderFlags", targets: ["LarderFlags"]),
        .library(name: "LarderServiceLifecycle", targets: ["LarderServiceLifecycle"]),
        .library(name: "LarderTesting", targets: ["LarderTesting"]),
        .library(name: "ConfigurationLarder", targets: ["ConfigurationLarder"]),
        .executable(name: "larderd", targets: ["larderd"]),
        .executable(name: "larder", targets: ["larder"]),
        .executable(name: "larder-http", targets: ["larder-http"]),
    ],
    traits: [
        .trait(name: "Agent", description: "The agent, its command-line tool, and LarderTesting."),
        .trait(name: "Gateway", description: "larder-http, the gateway to HTTP."),
        .trait(name: "ServiceLifecycle", description: "LarderServiceLifecycle."),
        .trait(name: "Configuration", description: "ConfigurationLarder, the provider for swift-configuration."),
        .default(enabledTraits: ["Agent", "Gateway", "ServiceLifecycle", "Configuration"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        // Without its traits, swift-configuration needs FoundationEssentials, but not Foundation, nor libraries for
        // logging, metrics and services.
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-system.git", from: "1.8.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CPCRE2", pkgConfig: "libpcre2-8", providers: [.apt(["libpcre2-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CNettle", pkgConfig: "nettle", providers: [.apt(["nettle-dev"])]),
        .target(name: "CLinuxShims"),
        .target(name: "CProtocolDescription"),
        larder("LarderJSON"),
        larder("LarderEncoding"),
        larder("LarderDigest", ["CNettle"]),
        larder("LarderPlatform", ["LarderEncoding", "CLinuxShims", nioPosix, system]),
        larder("LarderHTTPSemantics", ["LarderEncoding"]),
        larder("LarderImageFormats"),
        larder("LarderSnapshotFile", ["LarderJSON", "CLinuxShims"]),
        larder("LarderTemplate", ["LarderJSON"]),
        larder("LarderFlagRules", ["LarderJSON"]),
        larder("LarderSystemd", ["LarderEncoding", "CLinuxShims", "CSystemd", logging]),
        larder("LarderJSON5", ["LarderJSON"]),
        larder("LarderSchema", ["LarderJSON", "LarderEncoding", "CPCRE2"]),
        larder("LarderProtocol", ["LarderJSON", "LarderEncoding"]),
        larder(
            "LarderUpstream",
            [
                "LarderJSON", "LarderEncoding", "LarderHTTPSemantics", "LarderPlatform", "CZlib", httpClient, nioCore,
                nioHTTP, nioPosix,
            ]),
        // The rules of the configuration, without effects: this target uses no disk, clock, log or network.
        larder(
            "LarderConfigModel",
            ["LarderJSON", "LarderDigest", "LarderEncoding", "LarderHTTPSemantics", deque, heap]),
        larder(
            "LarderConfigStorage",
            [
                "LarderConfigModel", "LarderJSON", "LarderDigest", "LarderEncoding", "LarderHTTPSemantics",
                "LarderPlatform", "CLinuxShims", logging, deque, system,
            ]),
        larder(
            "LarderConfigSources",
            [
                "LarderConfigModel", "LarderJSON", "LarderJSON5", "LarderDigest", "LarderEncoding",
                "LarderHTTPSemantics", "LarderPlatform", "LarderUpstream", "CLinuxShims", logging, system,
            ]),
        larder(
            "LarderConfig",
            [
                "LarderConfigModel", "LarderConfigStorage", "LarderConfigSources", "LarderEncoding", "LarderJSON",
                "LarderSchema", "LarderHTTPSemantics", "LarderPlatform", "LarderUpstream", logging, deque, nioPosix,
            ]),
        larder(
            "LarderImages",
            [
                "LarderDigest", "LarderEncoding", "LarderHTTPSemantics", "LarderImageFormats", "LarderPlatform",
                "LarderUpstream", "CLinuxShims", "CSQLite", logging, system,
            ]),
        larder("LarderEventLoop", ["CLinuxShims", deque, heap, nioCore]),
        larder(
            "LarderServer",
            [
                "LarderEventLoop", "LarderJSON", "LarderEncoding", "LarderProtocol", "LarderConfig",
                "LarderConfigModel", "LarderImages", "LarderHTTPSemantics", "LarderImageFormats", "LarderPlatform",
                "LarderUpstream", "LarderSnapshotFile", "LarderFlagRules", "CLinuxShims", "CProtocolDescription",
                logging,
                nioCore, deque, system,
            ]),
        larder(
            "LarderSettings",
            [
                "LarderConfig", "LarderConfigModel", "LarderConfigSources", "LarderEncoding", "LarderImages",
                "LarderServer", "LarderImageFormats", "LarderPlatform", "LarderUpstream", "LarderProtocol",
                "LarderJSON", "LarderJSON5", logging,
            ]),
        // Without Foundation.
        larder(
            "LarderClientCore",
            [
                "LarderJSON", "LarderEncoding", "LarderProtocol", "LarderSnapshotFile", "CLinuxShims", nioCore,
                nioPosix, clientSystem,
            ]),
        larder("LarderClient", ["LarderClientCore", "LarderEncoding", "LarderJSON", "LarderProtocol"]),
        // Without Foundation.
        larder("LarderFlags", ["LarderClientCore", "LarderFlagRules", "LarderJSON"]),
        larder("LarderServiceLifecycle", ["LarderClient", lifecycle]),
        larder(
            "ConfigurationLarder",
            ["LarderClientCore", "LarderJSON", "LarderProtocol", "LarderSnapshotFile", configuration, lifecycle]),
        larder(
            "LarderTesting",
            [
                "LarderClientCore", "LarderConfig", "LarderConfigModel", "LarderEncoding", "LarderEventLoop",
                "LarderImages",
                "LarderJSON", "LarderPlatform", "LarderProtocol", "LarderServer", "LarderUpstream", logging,
                nioCore, nioPosix,
            ]),
        larder(
            "larderd",
            [
                "LarderEncoding", "LarderJSON", "LarderClientCore", "LarderCommand", "LarderEventLoop", "LarderServer",
                "LarderSettings", "LarderConfig", "LarderConfigSources", "LarderImages", "LarderPlatform",
                "LarderUpstream", "LarderProtocol", "LarderSystemd", "CLinuxShims", arguments, logging, nioCore,
                nioPosix, lifecycle,
                signals,
            ], executable: true),
        larder(
            "LarderCommand",
            [
                "LarderDigest", "LarderEncoding", "LarderFlagRules", "LarderJSON", "LarderJSON5", "LarderPlatform",
                "LarderProtocol", "LarderClientCore", "LarderSchema", "LarderTemplate", "CLinuxShims", arguments,
                system,
            ]),
        larder("larder", ["LarderCommand"], executable: true),
        // Without Foundation, and without the modules of the agent that have threads or files.
        larder(
            "LarderHTTPGateway",
            [
                "LarderClientCore", "LarderConfigModel", "LarderDigest", "LarderEncoding", "LarderFlagRules",
                "LarderJSON", "LarderJSON5", "LarderPlatform", "LarderProtocol", "LarderSystemd", "CLinuxShims",
                logging, nioCore, nioHTTP, nioPosix,
            ]),
        larder("larder-http", ["LarderHTTPGateway"], executable: true),
        // Not part of any product: the load generator and code shared by tests.
        .executableTarget(
            name: "larder-bench",
            dependencies: [
                "LarderJSON", "LarderSchema", "LarderClientCore", "LarderClient", "CLinuxShims",
                arguments,
            ],
            path: "contrib/benchmarks/larder-bench", swiftSettings: strict),
        .target(
            name: "TestSupport", dependencies: ["CLinuxShims", logging, nioCore, nioPosix], path: "Tests/TestSupport",
            swiftSettings: strict),
        tests("LarderJSONTests", ["LarderJSON"]),
        tests("LarderEncodingTests", ["LarderEncoding"]),
        tests("LarderDigestTests", ["LarderDigest"]),
        tests("LarderSnapshotFileTests", ["LarderSnapshotFile", "LarderJSON"]),
        tests("LarderTemplateTests", ["LarderTemplate", "LarderJSON"]),
        tests("LarderFlagRulesTests", ["LarderFlagRules", "LarderSchema", "LarderJSON"]),
        tests("LarderSchemaTests", ["LarderSchema", "LarderJSON"]),
        tests("LarderSystemdTests", ["LarderSystemd", logging]),
        tests(
            "LarderHTTPGatewayTests",
            [
                "LarderHTTPGateway", "LarderClientCore", "LarderFlagRules", "LarderJSON", "LarderSnapshotFile",
                "LarderTesting", logging, nioCore,
            ]),
        tests("LarderProtocolTests", ["LarderProtocol", "LarderJSON"]),
        tests("LarderHTTPSemanticsTests", ["LarderHTTPSemantics"]),
        tests("LarderImageFormatsTests", ["LarderImageFormats"]),
        tests("LarderPlatformTests", ["LarderPlatform", nioPosix, system]),
        tests(
            "LarderUpstreamTests",
            [
                "ConfigTestSupport", "LarderEncoding", "LarderHTTPSemantics", "LarderPlatform", "LarderUpstream",
                nioCore, nioPosix, nioHTTP, httpClient,
            ]),
        .target(
            name: "ConfigTestSupport", dependencies: ["LarderConfigStorage", "LarderPlatform", logging, nioPosix],
            path: "Tests/ConfigTestSupport", swiftSettings: strict),
        tests("LarderConfigModelTests", ["LarderConfigModel", "LarderJSON"]),
        tests(
            "LarderConfigStorageTests",
            [
                "ConfigTestSupport", "LarderConfigStorage", "LarderConfigModel", "LarderHTTPSemantics", "LarderJSON",
                "LarderPlatform",
            ]),
        tests(
            "LarderConfigSourcesTests",
            [
                "ConfigTestSupport", "LarderConfigSources", "LarderConfigModel", "LarderHTTPSemantics", "LarderJSON",
                "LarderPlatform", "LarderUpstream", logging, nioPosix,
            ]),
        tests(
            "LarderConfigTests",
            [
                "ConfigTestSupport", "LarderConfig", "LarderConfigModel", "LarderConfigStorage", "LarderConfigSources",
                "LarderDigest", "LarderEncoding", "LarderJSON", "LarderSchema", "LarderHTTPSemantics",
                "LarderPlatform", "LarderUpstream", logging, nioPosix,
            ]),
        tests(
            "LarderImagesTests",
            [
                "LarderImages", "LarderDigest", "LarderHTTPSemantics", "LarderImageFormats", "LarderPlatform",
                "LarderUpstream", "CLinuxShims", logging, nioPosix,
            ]),
        tests("LarderEventLoopTests", ["LarderEventLoop", nioCore]),
        tests(
            "LarderServerTests",
            [
                "LarderEventLoop", "LarderServer", "LarderConfig", "LarderConfigModel", "LarderFlagRules",
                "LarderHTTPSemantics", "LarderSnapshotFile", "LarderImages", "LarderPlatform", "LarderUpstream",
                "CLinuxShims", "LarderJSON",
                "LarderProtocol", logging, nioCore, nioEmbedded, nioPosix,
            ]),
        tests(
            "LarderSettingsTests",
            [
                "LarderSettings", "LarderServer", "LarderImageFormats", "LarderConfig", "LarderConfigModel",
                "LarderConfigSources", "LarderImages",
                "LarderUpstream", "LarderJSON", "LarderJSON5", "LarderProtocol", logging,
            ]),
        tests(
            "LarderClientTests",
            [
                "LarderEncoding", "LarderClient", "LarderClientCore", "LarderTesting", "LarderJSON", "LarderProtocol",
                nioCore, system,
            ]),
        tests("LarderFlagsTests", ["LarderFlags", "LarderClientCore", "LarderTesting", "LarderJSON"]),
        tests(
            "LarderTestingTests",
            [
                "LarderTesting", "LarderClient", "LarderJSON", "LarderProtocol", "LarderSnapshotFile", nioCore,
                nioPosix,
            ]),
        tests(
            "LarderServiceLifecycleTests",
            [
                "LarderServiceLifecycle", "LarderTesting", "ConfigurationLarder", configuration, lifecycle, logging,
            ]),
        tests(
            "ConfigurationLarderTests",
            ["ConfigurationLarder", "LarderClientCore", "LarderJSON", "LarderSnapshotFile", configuration]),
        tests("LarderBenchTests", ["larder-bench", "LarderJSON"]),
        tests(
            "LarderdTests",
            [
                "larderd", "LarderConfig", "LarderConfigModel", "LarderJSON", "LarderProtocol", logging, nioCore,
                nioEmbedded,
            ]),
        tests(
            "IntegrationTests",
            [
                "LarderDigest", "LarderJSON", "LarderProtocol", "LarderClient", "LarderCommand", "CLinuxShims",
                "larderd", "larder", "ConfigurationLarder", configuration, configurationTesting, arguments,
            ]),
        tests("ProtocolTests", ["larderd"]),
    ],
    // #embed, which puts the protocol's description into the program, requires C23.
    cLanguageStandard: .gnu2x
)
