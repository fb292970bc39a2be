// What the rooms take on disk over time.

import { bytes, capital } from "../format.js";
import { live } from "../live.js";
import { plot } from "../parts/plot.js";

export const storage = {
  id: "storage",
  title: "Storage",
  size: "half",
  order: 50,
  room: null,
  make(body, context) {
    const names = (live.status?.storage ?? []).map((part) => part.name);
    const sum = (sample) => Object.values(sample.storage).reduce((all, one) => all + one, 0);
    const parts = () => {
      const last = live.samples.at(-1);
      return names.map((name) => `${capital(name)} ${bytes(last.storage[name])}`).join(" · ");
    };
    plot(body, context, {
      label: "Bytes on disk over time, by room",
      series: names.map((name) => ({ name, value: (sample) => sample.storage[name] })),
      format: bytes,
      fromZero: true,
      base: 1024,
      total: sum,
      extra: parts,
    });
  },
};
