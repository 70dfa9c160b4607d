import warnings; warnings.simplefilter("ignore")
from bad import *
for o in (mlp, bilinear):
    r = tg.check(o, only="mesh"); print(r); 
for o in (anyneg, rowidx, tot, totw, rolled, parity, blockwise,clipn,dots):
    print(o); r=tg.check(o); print(o.__name__, r.verdict, [(f.title) for f in r.findings])
    if o is anyneg: print(r)
