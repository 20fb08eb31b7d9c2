"""How fast NumPy and PyTorch are at what reductions.c times: python peer_reductions.py THREADS"""

import sys
import time

import numpy as np
import torch

torch.set_num_threads(int(sys.argv[1]))
def best(f,n=9):
    f(); t=[]
    for _ in range(n):
        a=time.perf_counter(); f(); t.append(time.perf_counter()-a)
    return min(t)*1e3
x=np.random.standard_normal((4096,4096)).astype(np.float32); X=torch.from_numpy(x)
m=np.random.standard_normal((64,512,512)).astype(np.float32); M=torch.from_numpy(m)
i=(x*100).astype(np.int32); I=torch.from_numpy(i); B=X.bfloat16(); d=x[:2048].astype(np.float64); D=torch.from_numpy(d)
cases=[('sum f32 last',lambda:np.sum(x,1),lambda:X.sum(1)),('sum f32 first',lambda:np.sum(x,0),lambda:X.sum(0)),('sum f32 all',lambda:np.sum(x),lambda:X.sum()),
('sum f32 middle',lambda:np.sum(m,1),lambda:M.sum(1)),('sum f32 T all',lambda:np.sum(x.T,1),lambda:X.T.sum(1)),
('sum bf16 last',None,lambda:B.sum(1)),('max f32 last',lambda:np.max(x,1),lambda:X.amax(1)),('prod f32 last',lambda:np.prod(x,1),lambda:X.prod(1)),
('sum i32 last',lambda:np.sum(i,1,dtype=np.int32),lambda:I.sum(1,dtype=torch.int32)),('max i32 last',lambda:np.max(i,1),lambda:I.amax(1)),('sum f64 last',lambda:np.sum(d,1),lambda:D.sum(1)),
('any f32 all',lambda:np.any(x*0),lambda:(X*0).any()),('var f32 last',lambda:np.var(x,1),lambda:X.var(1)),('var f32 first',lambda:np.var(x,0),lambda:X.var(0)),
('cumsum f32 last',lambda:np.cumsum(x,1),lambda:X.cumsum(1)),('cumsum f32 first',lambda:np.cumsum(x,0),lambda:X.cumsum(0)),('cummax f32 last',lambda:np.maximum.accumulate(x,1),lambda:X.cummax(1)),
('logcumsumexp f32',None,lambda:X[:256].logcumsumexp(1)),
('sort f32 last',lambda:np.sort(x[:512],1),lambda:X[:512].sort(1)),('sort f64 last',lambda:np.sort(d[:512],1),lambda:D[:512].sort(1)),('argsort i32',lambda:np.argsort(i[:512],1,kind='stable'),lambda:I[:512].argsort(1,stable=True)),
('partition f32',lambda:np.partition(x[:512],100,1),lambda:X[:512].kthvalue(100,1)),('searchsorted',lambda:np.searchsorted(np.sort(x[0]),x[:64].ravel()),lambda:torch.searchsorted(X[0].sort()[0],X[:64].reshape(-1)))]
for n,a,b in cases: print(f"{n:18s} numpy {best(a) if a else float('nan'):8.2f} torch {best(b):8.2f}")
