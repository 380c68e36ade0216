/** A time as Go prints it, to the millisecond: `345ms`, `1.5s`, `2m10.25s`, `1h0m5s`. */
export function formatGoDuration(ms: number): string {
  const whole = Math.max(0, Math.trunc(ms));
  if (whole === 0) return "0s";
  if (whole < 1000) return `${whole}ms`;
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = `${(whole % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
