/** The palette of the theme that is on screen. */
import { colourOf } from "../theme.svelte";
import { DARK, LIGHT, type Palette } from "./model/colours";

export function paletteNow(): Palette {
  const [red = 255] = (colourOf("--surface").match(/\d+/g) ?? []).map(Number);
  return red < 128 ? DARK : LIGHT;
}
