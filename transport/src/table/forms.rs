//! How each row of a table is stored.

use mgcomp_codecs::ibp::Form;

/// One bit per row, set = packed; and with several clusters one byte per row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forms {
    packed: Vec<u8>,
    /// Empty with one cluster.
    clusters: Vec<u8>,
}

/// The forms of some rows of a table, the first of which has the lowest bit of a byte.
pub(super) struct FormsMut<'a> {
    packed: &'a mut [u8],
    clusters: &'a mut [u8],
}

impl Forms {
    /// Of `rows` rows that are all raw.
    pub(super) fn raw(rows: usize, clusters: usize) -> Self {
        Self { packed: vec![0; rows.div_ceil(8)], clusters: vec![0; if clusters > 1 { rows } else { 0 }] }
    }

    /// As they stand in a file.
    pub(super) fn from_parts(packed: Vec<u8>, clusters: Vec<u8>) -> Self {
        Self { packed, clusters }
    }

    pub(super) fn packed_mask(&self) -> &[u8] {
        &self.packed
    }

    pub(super) fn clusters(&self) -> &[u8] {
        &self.clusters
    }

    #[inline]
    pub(super) fn form(&self, row: usize) -> Form {
        if self.packed[row / 8] >> (row % 8) & 1 == 1 {
            Form::Packed { cluster: self.clusters.get(row).copied().unwrap_or(0) }
        } else {
            Form::Raw
        }
    }

    pub(super) fn set(&mut self, row: usize, form: Form) {
        FormsMut { packed: &mut self.packed, clusters: &mut self.clusters }.set(row, form);
    }

    /// Stretches of `rows` rows, a multiple of 8.
    pub(super) fn stretches_mut(&mut self, rows: usize) -> impl Iterator<Item = FormsMut<'_>> {
        let mut clusters = self.clusters.chunks_mut(rows);
        self.packed
            .chunks_mut(rows / 8)
            .map(move |packed| FormsMut { packed, clusters: clusters.next().unwrap_or_default() })
    }
}

impl FormsMut<'_> {
    pub(super) fn set(&mut self, row: usize, form: Form) {
        let (packed, cluster) = match form {
            Form::Raw => (0, 0),
            Form::Packed { cluster } => (1, cluster),
        };
        let byte = &mut self.packed[row / 8];
        *byte = *byte & !(1 << (row % 8)) | packed << (row % 8);
        if let Some(place) = self.clusters.get_mut(row) {
            *place = cluster;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_kept_by_row() {
        let mut forms = Forms::raw(20, 3);
        assert_eq!((forms.packed_mask(), forms.clusters()), (&[0; 3][..], &[0; 20][..]));
        forms.set(9, Form::Packed { cluster: 2 });
        forms.set(0, Form::Packed { cluster: 1 });
        forms.set(0, Form::Raw);
        let mut stretches: Vec<_> = forms.stretches_mut(8).collect();
        assert_eq!(stretches.len(), 3);
        stretches[2].set(3, Form::Packed { cluster: 1 });
        assert_eq!(forms.packed_mask(), [0, 2, 8]);
        assert_eq!(
            [0, 9, 19].map(|row| forms.form(row)),
            [Form::Raw, Form::Packed { cluster: 2 }, Form::Packed { cluster: 1 }]
        );
        let mut one = Forms::raw(8, 1);
        one.set(7, Form::Packed { cluster: 0 });
        assert_eq!((one.clusters(), one.form(7)), (&[][..], Form::Packed { cluster: 0 }));
    }
}
