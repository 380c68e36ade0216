const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** `3.7 GiB`, `512 MiB` */
export function sizeText(bytes: number): string {
  const exponent = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const amount = bytes / 1024 ** exponent;
  return `${amount < 10 && exponent > 0 ? amount.toFixed(1) : Math.round(amount)} ${UNITS[exponent]}`;
}
