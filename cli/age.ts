const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * The age of an RFC 3339 time in the format of `kubectl get`; `-` for an invalid time. A time in the future counts as
 * now: the clock may have been set back.
 */
export function ageOf(time: string, now: number): string {
  const ageMs = now - Date.parse(time);
  return Number.isNaN(ageMs) ? "-" : humanDuration(Math.max(0, ageMs));
}

/**
 * `90s`, `2m30s`, `12m`, `5h12m`, `3d4h`, `2y10d`: two units for small numbers of the larger one. Rule: apimachinery,
 * duration.HumanDuration.
 */
function humanDuration(ms: number): string {
  const seconds = Math.trunc(ms / SECOND_MS);
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.trunc(ms / MINUTE_MS);
  if (minutes < 10) return twoUnits([minutes, "m"], [seconds % 60, "s"]);
  if (minutes < 3 * 60) return `${minutes}m`;
  const hours = Math.trunc(ms / HOUR_MS);
  if (hours < 8) return twoUnits([hours, "h"], [minutes % 60, "m"]);
  if (hours < 48) return `${hours}h`;
  const days = Math.trunc(hours / 24);
  if (days < 8) return twoUnits([days, "d"], [hours % 24, "h"]);
  if (days < 2 * 365) return `${days}d`;
  const years = Math.trunc(days / 365);
  return years < 8 ? twoUnits([years, "y"], [days % 365, "d"]) : `${years}y`;
}

type Amount = readonly [count: number, unit: string];

function twoUnits([count, unit]: Amount, [rest, smallerUnit]: Amount): string {
  return `${count}${unit}${rest === 0 ? "" : `${rest}${smallerUnit}`}`;
}
