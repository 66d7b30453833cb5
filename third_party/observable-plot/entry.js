// What web/report/ uses of Observable Plot.
export { barX, dot, lineY, link, plot, ruleX, text } from "@observablehq/plot";
