//! Layouts of the Identify data structures.

/// Size in bytes of each Identify data structure.
//= nvme-2.1 5.1.13
pub(crate) const IDENTIFY_BYTES: usize = 4096;

/// Data structure of Identify Controller.
//= nvme-2.1 5.1.13.2.1
pub(crate) mod controller {
    units::layout! { 4096:
        VID: u16 = 0,
        SSVID: u16 = 2,
        SN: [u8; 20] = 4,
        MN: [u8; 40] = 24,
        FR: [u8; 8] = 64,
        RAB: u8 = 72,
        CMIC: u8 = 76,
        MDTS: u8 = 77,
        CNTLID: u16 = 78,
        VER: u32 = 80,
        OAES: u32 = 92,
        CTRATT: u32 = 96,
        CNTRLTYPE: u8 = 111,
        OACS: u16 = 256,
        ACL: u8 = 258,
        AERL: u8 = 259,
        FRMW: u8 = 260,
        LPA: u8 = 261,
        ELPE: u8 = 262,
        WCTEMP: u16 = 266,
        CCTEMP: u16 = 268,
        TNVMCAP: [u8; 16] = 280,
        KAS: u16 = 320,
        SANICAP: u32 = 328,
        ENDGIDMAX: u16 = 340,
        SQES: u8 = 512,
        CQES: u8 = 513,
        MAXCMD: u16 = 514,
        NN: u32 = 516,
        ONCS: u16 = 520,
        FNA: u8 = 524,
        VWC: u8 = 525,
        OCFS: u16 = 534,
        SGLS: u32 = 536,
        MNAN: u32 = 540,
        SUBNQN: [u8; 256] = 768,
        IOCCSZ: u32 = 1792,
        IORCSZ: u32 = 1796,
        ICDOFF: u16 = 1800,
        FCATT: u8 = 1802,
        MSDBD: u8 = 1803,
        OFCS: u16 = 1804,
        MP: u16 = 2048,
    }
}

/// Identify Namespace, NVM command set.
//= nvme-nvm 4.1.5.1
pub(crate) mod namespace {
    units::layout! { 4096:
        NSZE: u64 = 0,
        NCAP: u64 = 8,
        NUSE: u64 = 16,
        NSFEAT: u8 = 24,
        NLBAF: u8 = 25,
        FLBAS: u8 = 26,
        NMIC: u8 = 30,
        DLFEAT: u8 = 33,
        NVMCAP: [u8; 16] = 48,
        NPWG: u16 = 64,
        NPDG: u16 = 68,
        NPDA: u16 = 70,
        MSSRL: u16 = 74,
        MCL: u32 = 76,
        MSRC: u8 = 80,
        ENDGID: u16 = 102,
        NGUID: [u8; 16] = 104,
        LBAF: u32 = 128,
    }

    /// Size in bytes of an LBA format descriptor.
    pub(crate) const LBAF_BYTES: usize = 4;
}

/// Identify Namespace, independent of the command set.
//= nvme-2.1 5.1.13.2.8
pub(crate) mod independent {
    units::layout! { 4096:
        NSFEAT: u8 = 0,
        NMIC: u8 = 1,
        ENDGID: u16 = 12,
        NSTAT: u8 = 14,
    }
}

/// Identify Namespace, zoned command set.
//= zns 4.1.5
pub(crate) mod zoned {
    units::layout! { 4096:
        OZCS: u16 = 2,
        MAR: u32 = 4,
        MOR: u32 = 8,
        NUMZRWA: u32 = 44,
        ZRWAFG: u16 = 48,
        ZRWASZ: u16 = 50,
        ZRWACAP: u8 = 52,
        ZSZE: u64 = 2816,
    }

    /// Size in bytes of an extended LBA format descriptor.
    pub(crate) const LBAFE_BYTES: usize = 16;
}

/// Identify Controller, NVM command set.
//= nvme-nvm 4.1.5.4
pub(crate) mod set {
    units::layout! { 4096:
        WZSL: u8 = 1,
        WUSL: u8 = 2,
        DMRL: u8 = 3,
        DMRSL: u32 = 4,
        DMSL: u64 = 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_fields_lie_never_changes() {
        let print = |fields: &[units::layout::FieldInfo]| {
            let lines = fields
                .iter()
                .map(|(name, at, len)| format!("{name} {at} {len}"));
            lines.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            print(independent::FIELDS),
            "NSFEAT 0 1, NMIC 1 1, ENDGID 12 2, NSTAT 14 1"
        );
        assert_eq!(controller::FIELDS.len(), 43);
        assert_eq!(controller::OFCS.end(), 1806);
        assert_eq!(namespace::NGUID.end(), 120);
        assert_eq!(zoned::ZRWACAP.at, 52);
        assert_eq!(set::DMSL.end(), 16);
    }
}
