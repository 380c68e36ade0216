/** The rows of a table as lines, each column as wide as its widest cell. The first row is the header. */
export function alignColumns(rows: readonly (readonly string[])[]): readonly string[] {
  const [header = []] = rows;
  const widths = header.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
