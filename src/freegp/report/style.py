"""The page's looks: one column that fits a telephone and prints on paper."""

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #222; font: 1rem/1.55 system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-bottom: .25rem; border-bottom: 1px solid #ddd; }
p, ul { margin: .6rem 0; }
ul { padding-left: 1.2rem; }
li { margin: .35rem 0; }
small, figcaption { color: #555; font-size: .875rem; }
li small { display: block; overflow-wrap: anywhere; }
code { font: .92em ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.verdict { font-size: 1.35rem; line-height: 1.35; font-weight: 600; padding: .9rem 1.1rem; border-left: .5rem solid; }
.good { color: #0b4f3a; background: #e4f4ee; border-color: #009e73; }
.mixed { color: #5c3d00; background: #fdf3dc; border-color: #e69f00; }
.bad { color: #6e2c00; background: #fbe9df; border-color: #d55e00; }
figure { margin: 1rem 0; }
img { display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: .94rem; }
th, td { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
tbody th { font-weight: 400; }
td { font-variant-numeric: tabular-nums; }
@media print {
  main { max-width: none; padding: 0; }
  figure, table, .verdict, li { break-inside: avoid; }
  h2 { break-after: avoid; }
  .verdict { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
