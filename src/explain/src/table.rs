//! Tables and paragraphs of at most 100 columns. It knows no object.

/// Most columns of a line.
pub const WIDTH: usize = 100;
/// Blanks between two columns.
const GAP: usize = 3;

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    right: bool,
    wide: bool,
}

impl Column {
    /// Text.
    #[must_use]
    pub const fn left(title: &'static str) -> Self {
        Self { title, right: false, wide: false }
    }

    /// Numbers.
    #[must_use]
    pub const fn right(title: &'static str) -> Self {
        Self { title, right: true, wide: false }
    }

    /// Sentences: the last column, wrapped into what room is left.
    #[must_use]
    pub const fn wide(title: &'static str) -> Self {
        Self { title, right: false, wide: true }
    }
}

/// Rows under titles.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// True if there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As text. Cells that would make lines too long are cut in the middle, the widest column first; a wide one is
    /// wrapped.
    #[must_use]
    pub fn text(&self) -> String {
        let widths = self.widths();
        let titles = std::array::from_fn(|at| self.columns[at].title.to_owned());
        let mut text = self.line(&titles, &widths);
        for row in &self.rows {
            text.push_str(&self.line(row, &widths));
        }
        text
    }

    fn widths(&self) -> [usize; N] {
        let mut widths: [usize; N] = std::array::from_fn(|at| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.chain([self.columns[at].title.chars().count()]).max().unwrap_or(0)
        });
        let least: usize = (0..N).filter(|at| self.columns[*at].wide).map(|_| 30).sum();
        loop {
            let narrow: usize = (0..N).filter(|at| !self.columns[*at].wide).map(|at| widths[at]).sum();
            let room = WIDTH.saturating_sub(GAP * N.saturating_sub(1) + least);
            let widest = (0..N).filter(|at| !self.columns[*at].wide).max_by_key(|at| widths[*at]);
            match widest {
                Some(widest) if narrow > room && widths[widest] > 8 => widths[widest] -= 1,
                Some(_) | None => break,
            }
        }
        widths
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            if column.wide {
                let indent = line.chars().count();
                line.push_str(&cells[at]);
                return wrap(line.trim_end(), indent) + "\n";
            }
            let cell = shortened(&cells[at], widths[at]);
            let blanks = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
            if column.right {
                line.push_str(&blanks);
                line.push_str(&cell);
            } else {
                line.push_str(&cell);
                line.push_str(&blanks);
            }
        }
        line.trim_end().to_owned() + "\n"
    }
}

/// The text with its middle left out where it is too long: names of pods differ at both ends.
#[must_use]
pub fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head: String = text.chars().take(kept.div_ceil(2)).collect();
    let tail: String = text.chars().skip(length - kept / 2).collect();
    format!("{head}…{tail}")
}

/// Lines of at most [`WIDTH`] columns, broken at blanks; all but the first begin with `indent` blanks. A word that is
/// longer than a line stays whole.
#[must_use]
pub fn wrap(text: &str, indent: usize) -> String {
    let indent = indent.min(WIDTH - 20);
    let mut lines: Vec<String> = Vec::new();
    let start: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut line = start;
    let mut empty = true;
    // Runs of blanks are columns, and stay.
    for piece in text.trim_start().split(' ') {
        let length = line.chars().count() + usize::from(!empty) + piece.chars().count();
        if !empty && length > WIDTH {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(piece);
        empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines.join("\n")
}
