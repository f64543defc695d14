import Testing

@testable import LarderUpstream

@Suite("Address guard")
struct AddressGuardTests {
    @Test(
        "IPv4 addresses are classified by their purpose, even inside IPv6 addresses",
        arguments: [
            ("8.8.8.8", .global), ("1.1.1.1", .global), ("9.255.255.255", .global), ("11.0.0.0", .global),
            ("172.15.255.255", .global), ("172.32.0.0", .global), ("100.63.255.255", .global), ("100.128.0.0", .global),
            ("126.255.255.255", .global), ("128.0.0.0", .global), ("223.255.255.255", .global),
            ("0.0.0.0", .loopback), ("0.255.1.1", .loopback), ("127.0.0.1", .loopback), ("127.255.255.255", .loopback),
            ("10.0.0.0", .privateUse), ("10.255.255.255", .privateUse), ("172.16.0.0", .privateUse),
            ("172.31.255.255", .privateUse), ("192.168.0.1", .privateUse), ("100.64.0.0", .shared),
            ("100.127.255.255", .shared), ("100.100.100.200", .shared), ("169.254.169.254", .linkLocal),
            ("192.0.0.170", .reserved), ("192.0.2.1", .documentation), ("198.51.100.7", .documentation),
            ("203.0.113.255", .documentation), ("192.88.99.1", .reserved), ("198.18.0.1", .reserved),
            ("198.19.255.255", .reserved), ("224.0.0.1", .multicast), ("239.255.255.255", .multicast),
            ("240.0.0.1", .reserved), ("255.255.255.255", .broadcast), ("255.255.255.254", .reserved),
        ] as [(String, AddressKind)])
    func ipv4(_ text: String, _ kind: AddressKind) throws {
        let address = try #require(IPAddress(text))
        #expect(address.kind == kind)
        #expect(address.description == text)
        #expect(try #require(IPAddress("::ffff:\(text)")) == address, "mapped")
        let hex = text.split(separator: ".").compactMap { UInt32($0) }.reduce(0) { $0 << 8 | $1 }
        let (high, low) = (String(hex >> 16, radix: 16), String(hex & 0xFFFF, radix: 16))
        // NAT64 and 6to4 addresses have the kind of the IPv4 address that they contain.
        for form in [
            "64:ff9b::\(high):\(low)", "2002:\(high):\(low)::1", "2002:\(high):\(low):ffff:ffff:ffff:ffff:ffff",
        ] {
            #expect(try #require(IPAddress(form)).kind == kind, "\(form)")
        }
        let inverted = ~hex
        let client = "\(String(inverted >> 16, radix: 16)):\(String(inverted & 0xFFFF, radix: 16))"
        #expect(try #require(IPAddress("2001:0:808:808::\(client)")).kind == kind, "Teredo client")
        #expect(try #require(IPAddress("2001:0:\(high):\(low)::f7f7:f7f7")).kind == kind, "Teredo server")
    }

    @Test(
        "IPv6 addresses are classified by their purpose",
        arguments: [
            ("2606:4700:4700::1111", .global), ("2a00::1", .global), ("2001:4860:4860::8888", .global),
            ("3ffe:ffff::1", .global), ("::", .loopback), ("::1", .loopback), ("::7f00:1", .loopback),
            ("::a00:1", .privateUse), ("::808:808", .reserved), ("::ffff:0:a9fe:a9fe", .linkLocal),
            ("fe80::1", .linkLocal), ("febf::1", .linkLocal), ("fec0::1", .privateUse), ("feff::1", .privateUse),
            ("fc00::1", .privateUse), ("fd00:ec2::254", .privateUse), ("ff02::1", .multicast), ("ffff::", .multicast),
            ("64:ff9b:1::808:808", .privateUse), ("64:ff9b::1:808:808", .reserved), ("64:ff9c::808:808", .reserved),
            ("100::1", .reserved), ("2001:2::1", .reserved), ("2001:1f::1", .reserved), ("2001:2f::1", .reserved),
            ("2001:db8::1", .documentation), ("3fff::1", .documentation), ("3fff:fff::1", .documentation),
            ("5f00::1", .reserved), ("4000::1", .reserved), ("1fff::1", .reserved), ("fe00::1", .reserved),
        ] as [(String, AddressKind)])
    func ipv6(_ text: String, _ kind: AddressKind) throws {
        #expect(try #require(IPAddress(text)).kind == kind)
    }

    @Test(
        "a text that is not an IP address in standard notation is invalid",
        arguments: [
            "", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "0x7f.0.0.1", "2130706433", " 1.2.3.4", "1.2.3.4 ",
            "fe80::1%lo", "[::1]", ":::", "1::2::3", "12345::", "::1/128", "::ffff:1.2.3", "١.2.3.4",
        ])
    func noAddresses(_ text: String) { #expect(IPAddress(text) == nil) }

    @Test("address ranges are parsed strictly and contain the addresses of their prefix")
    func ranges() throws {
        for text in [
            "10.0.0.0/8", "0.0.0.0/0", "1.2.3.4/32", "fd00::/8", "::/0", "2001:db8::/33", "::1/128", "fe80::/64",
        ] {
            #expect(AddressRange(text)?.description == text)
        }
        #expect(AddressRange("1.2.3.4")?.length == 32)
        #expect(AddressRange("fd00::1")?.length == 128)
        for text in [
            "10.0.0.1/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "a/8", "1.2.3.4/8/8", "",
        ] {
            #expect(AddressRange(text) == nil, "\(text)")
        }
        func isIn(_ address: String, _ range: String) throws -> Bool {
            try #require(AddressRange(range)).contains(#require(IPAddress(address)))
        }
        #expect(try isIn("10.255.255.255", "10.0.0.0/8"))
        #expect(try !isIn("11.0.0.0", "10.0.0.0/8"))
        #expect(try isIn("11.0.0.0", "0.0.0.0/0"))
        #expect(try !isIn("::1", "0.0.0.0/0"))
        #expect(try !isIn("1.2.3.4", "::/0"))
        #expect(try isIn("fd00:0:0:1::5", "fd00:0:0:1::/64"))
        #expect(try !isIn("fd00:0:0:2::5", "fd00:0:0:1::/64"))
        #expect(try isIn("fd00::8000:0:0:5", "fd00::8000:0:0:0/65"))
        #expect(try !isIn("fd00::5", "fd00::8000:0:0:0/65"))
    }

    @Test("private addresses in a configured range are allowed, even in IPv4-mapped form; others are refused")
    func allowed() throws {
        let guarded = AddressGuard(allowed: [try #require(AddressRange("10.1.0.0/16"))])
        #expect(guarded.allows(try #require(IPAddress("10.1.2.3"))))
        #expect(guarded.allows(try #require(IPAddress("::ffff:10.1.2.3"))))
        #expect(guarded.allows(try #require(IPAddress("8.8.8.8"))))
        for text in ["10.2.0.1", "127.0.0.1", "::1", "2002:a01:203::1", "64:ff9b::10.1.2.3"] {
            let address = try #require(IPAddress(text))
            #expect(!guarded.allows(address))
            let error = #expect(throws: UpstreamError.self) { try guarded.check(address, of: "intranet.example") }
            #expect(error?.code == .forbiddenAddress)
            #expect(error?.message.contains("intranet.example") == true)
            #expect(error?.isRetryable == false)
        }
    }

    @Test(
        "the host of a URL is classified as an address, a name or invalid",
        arguments: [
            ("127.0.0.1", .address), ("127.0.0.1.", .address), ("[::1]", .address), ("[::FFFF:1.2.3.4]", .address),
            ("example.com", .name), ("EXAMPLE.com.", .name), ("localhost", .name), ("a_b-c.x0", .name),
            ("xn--bcher-kva.example", .name), ("1.2.3.4.example", .name), ("0x7f.example", .name), ("0xg", .name),
            ("0x7f.1", .neither), ("0x7f000001", .neither), ("0X7F.0.0.1", .neither), ("017700000001", .neither),
            ("2130706433", .neither), ("127.1", .neither), ("127.0.1", .neither), ("0177.0.0.1", .neither),
            ("127.0.0.1..", .neither), ("1.2.3.4.5", .neither), ("256.1.1.1", .neither), ("example.com.0x0", .neither),
            ("example.0x", .neither), ("a..b", .neither), (".a", .neither), ("", .neither), (".", .neither),
            ("a b", .neither), ("a%2eb", .neither), ("bücher.example", .neither), ("１２７.0.0.1", .neither),
            ("[fe80::1%25lo]", .neither), ("::1", .neither), ("[::1", .neither), ("[1.2.3.4]", .neither),
            ("[google.com]", .neither), ("[::1]a", .neither), ("a\0b", .neither),
        ] as [(String, Expected)])
    func hosts(_ text: String, _ expected: Expected) {
        let host = (try? URLAuthority(Substring(text)))?.host
        #expect((host == nil) == (expected == .neither))
        #expect((host?.address != nil) == (expected == .address))
        if let name = host?.name { #expect(name == name.lowercased() && !name.hasSuffix(".")) }
    }

    enum Expected: Sendable { case address, name, neither }
}
