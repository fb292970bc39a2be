// A QR code that the server drew.

import { s } from "../dom.js";

export function qrCode({ size, path }, label) {
  return s("svg", { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label },
    s("rect", { class: "qr-paper", width: size, height: size }),
    s("path", { class: "qr-ink", d: path }));
}
