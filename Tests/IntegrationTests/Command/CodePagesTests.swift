import Testing

@testable import larderd

@Suite("Release of code pages")
struct CodePagesTests {
    @Test("only the pages of executable file mappings are released")
    func ranges() {
        let maps = """
            5600a000-5600c000 r--p 00000000 fe:00 1234   /usr/sbin/larderd
            5600c000-5600f000 r-xp 00002000 fe:00 1234   /usr/sbin/larderd
            5600f000-56010000 rw-p 00005000 fe:00 1234   /usr/sbin/larderd
            7f000000-7f002000 r-xp 00000000 fe:00 99     /usr/lib/a name with spaces.so
            7f002000-7f003000 r-xp 00000000 00:00 0
            7ffd0000-7ffd2000 r-xp 00000000 00:00 0      [vdso]
            no-line r-xp 0 0 0 /a
            7f004000-7f003000 r-xp 00000000 fe:00 99     /usr/lib/backwards.so
            """
        #expect(CodePages.ranges(ofMaps: maps) == [0x5600_c000..<0x5600_f000, 0x7f00_0000..<0x7f00_2000])
    }

    @Test("released code remains usable")
    func repeatedRelease() {
        for _ in 0..<3 {
            CodePages.release()
            #expect(CodePages.ranges(ofMaps: "").isEmpty)
        }
    }
}
